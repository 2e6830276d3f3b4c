"""The inventory of a storage, file by file, and the removal of old runs."""
