"""The meaning of texts and queries: a vector for every stored text, and one for a query in time."""
