"""`python -m counterfoil` is the command line."""

from counterfoil.cli.main import main

if __name__ == "__main__":
    main()
