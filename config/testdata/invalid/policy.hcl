hide "nothing" {}                        # ERROR: Missing prompts
hide "bad" { prompts = ["[ab", "[^a]", "[]", "[z-a]", "x\\", ""] } # ERROR: has a class that starts with "^"; write "[!a]" for all but "a" # ERROR: has a class without a closing "]" # ERROR: has an empty class # ERROR: runs backwards # ERROR: ends in a lone # ERROR: is empty and matches nothing
hide { prompts = ["*"] }                 # ERROR: Write hide "NAME" { … }
team "a b" {}                            # ERROR: Invalid team name; "a b" is not a name
team "search" {
  members = [
    "user:alice",
    "group:anonymous",
    "user:anonymous",                    # ERROR: "user:anonymous" cannot be a member, because callers without a token are in no team
    "team:payments",                     # ERROR: "team:payments" cannot be a member
    "*",                                 # ERROR: "*" cannot be a member
    "alice",                             # ERROR: "alice" cannot be a member; write "user:NAME" or "group:NAME".
    "user:",                             # ERROR: needs a name
    "role:x",                            # ERROR: cannot be a member
  ]
  expose "nothing" {                     # ERROR: Missing prompts # ERROR: Missing to
  }
  expose "empty" {
    prompts = []                         # ERROR: Invalid prompts
    to      = []                         # ERROR: Invalid to
  }
  expose "x" {
    prompts = "*"                        # ERROR: prompts must be a list of strings
    to      = ["team:serch", "group:x", "user:a b"] # ERROR: names a team that no team block declares. Did you mean "search" # ERROR: needs a name without spaces
  }
  hide "x" {                             # ERROR: Missing prompts
  }
}
team named {
  upstream u { url = "https://u.example.com" }
  expose x {
    prompts = ["u.*"]
    to      = ["team:named", "team:in"]  # ERROR: "team:in" names a team that no team block declares; correct it, or declare the team
  }
}
team "search" {}                         # ERROR: Duplicate name; The team "search" is already defined at testdata/invalid/policy.hcl:5
