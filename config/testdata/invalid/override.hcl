team "a" {
  upstream "u" { url = "https://u.example.com" }
  prompt "u.x" {}                        # ERROR: Nothing to change
  prompt "u.x" { title = "again" }       # ERROR: Duplicate name; The prompt block "u.x" is already defined at
  prompt "v.x" { title = "theirs" }      # ERROR: Prompt of another team; "v.x" has a prefix of team "b"
  prompt "w.x" { title = "nobody's" }    # ERROR: No such prompt; "w.x" does not begin with the prefix of any upstream; write the name as clients see it, which begins with "u.".
  prompt "u.y" { name = "one" }
  prompt "u.z" { name = "one" }          # ERROR: Duplicate name; The exposed name "one" is already defined at
  prompt "u.1" { name = "v.taken" }      # WARNING: Name in another team's prefix
  prompt "u.2" { name = "" }             # ERROR: is not a name
  prompt "u.3" {
    title     = 1
    arguments = { a = null }             # ERROR: "a" is null
    defaults  = ["x"]                    # ERROR: defaults must have a value for each argument
  }
  prompt "u.4" {
    description = env("SECRET")          # ERROR: Sensitive description
    arguments   = { a = "x", "a" = "y" } # ERROR: "a" is already in the map
    defaults    = { a = "z" }            # ERROR: Fixed and default argument; "a" is in arguments
  }
  prompt "u.5" { arguments = { key = env("SECRET") } } # ERROR: Sensitive arguments
  prompt "u.6" {
    arguments = {}                       # ERROR: arguments must have a value for each argument
    titel     = "x"                      # ERROR: Did you mean "title"
  }
  prompt { title = "x" }                 # ERROR: Write prompt "NAME"
}
team "b" {
  upstream "v" { url = "https://v.example.com" }
}
