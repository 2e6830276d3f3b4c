"""A runtime to begin a new adapter from; it is none that users can choose."""
