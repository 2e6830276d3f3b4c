"""`pytest bench/` in a checkout: loads the plug-in of the package."""

pytest_plugins = ["reusebench"]
