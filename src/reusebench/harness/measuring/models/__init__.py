"""The models of a session, as each runtime reads them: user files and built-in networks."""
