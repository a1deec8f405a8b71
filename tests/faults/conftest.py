from decisions.fixtures import *  # noqa: F403 - pytest finds fixtures by name
