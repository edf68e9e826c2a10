"""python -m handful"""

from handful.cli import main

if __name__ == "__main__":
    main()
