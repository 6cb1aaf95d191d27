"""What every floor does to files in the same way: locks of the kernel, making
private directories, and replacing a file whole.
"""
