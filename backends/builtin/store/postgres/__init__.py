"""The index in PostgreSQL with pgvector: one schema for many agents, each of which sees only its own rows."""
