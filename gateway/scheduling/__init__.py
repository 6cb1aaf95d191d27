"""When the index is brought level with the disk without anybody waiting for it."""
