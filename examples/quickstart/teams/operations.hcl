# Owned by the operations team.

team "operations" {
  # Change a file while the gateway runs: the next list has it, and each client whose own list has changed
  # is notified. Names that start with an underscore are no prompts: _style.md is a part of two others.
  #
  # Prompts on an MCP server would need url or command instead of files, as in examples/two-teams.
  upstream "handbook" { files = ["handbook/*.md"] }

  # A skill is a folder of instructions that an assistant loads when a task needs them. Clients without
  # skills get it as a prompt, guides.postmortem.
  upstream "guides" {
    files  = ["guides/*/SKILL.md"]
    skills = true
  }
}
