"""What every floor does to files in the same way: locks of the kernel, and replacing a file whole."""
