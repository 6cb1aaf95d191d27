"""What a new session loads into its context: the long-term memory and the latest daily logs."""
