"""The stores that keep an index: their interface (`port`), the SQLite file (`sqlite`) and PostgreSQL (`postgres`)."""
