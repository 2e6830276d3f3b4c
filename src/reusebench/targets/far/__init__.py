"""Remote boards: reached by any command with a shell on a pipe, read and driven by the reader."""
