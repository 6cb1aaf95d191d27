"""What every floor does in the same way: waking a task, waiting longer after each failure, files and locks."""
