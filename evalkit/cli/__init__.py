def main() -> None:
    """Replaced below."""
