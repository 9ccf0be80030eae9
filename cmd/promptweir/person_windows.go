package main

// terminalPath is the terminal that the process belongs to.
const terminalPath = "CONOUT$"
