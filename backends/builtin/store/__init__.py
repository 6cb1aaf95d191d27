"""Where the index is kept: what every store offers (`port`), and the SQLite file (`sqlite`)."""
