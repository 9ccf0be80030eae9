{ # ERROR: A configuration is written in HCL
  "mcpServers": { "u": { "command": "u", "env": { "TOKEN": "hunter2" } } }
}
