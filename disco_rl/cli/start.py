"""Where the `disco-rl` command begins, before anything heavy is imported."""

import sys

from disco_rl.cli import huge_pages


def main() -> int:
  """Restarts the process as it runs fastest, then does what was asked for."""
  huge_pages.restart()
  from disco_rl.cli import main as commands

  return commands.main()


if __name__ == '__main__':
  sys.exit(main())
