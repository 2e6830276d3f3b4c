"""Tables and sentences that several sections, streams and the terminal share."""
