"""What is in a storage, file by file, and the removal of old runs."""
