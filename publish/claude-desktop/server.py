"""What Claude Desktop starts: the program as an MCP server on its pipe, for the folder that was chosen."""

import sys

from memory_gateway import main

sys.argv[1:1] = ["serve"]
sys.exit(main())
