"""What every test of this project needs: pytester, and nothing of the plugin's own."""

pytest_plugins = ["pytester"]
