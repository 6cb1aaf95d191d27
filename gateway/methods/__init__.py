"""The method table of the pipe: names, parameter types, handlers of a few lines."""
