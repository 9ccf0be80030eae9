auth {
  token "ci" {
    sha256 = "abc"                       # ERROR: Invalid sha256; (sensitive) is not 64 hexadecimal digits; printf %s "$token" | sha256sum prints the hash of a token.
    groups = ["group:ci", "", "a b"]     # ERROR: starts with "group:" # ERROR: is not a group # ERROR: is not a group
  }
  token "ci" {                           # ERROR: Duplicate name; The token "ci" is already defined at testdata/invalid/auth.hcl:2
    sha256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
  }
  token "cd" {
    sha256 = "9F86D081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08" # ERROR: has the same hash
  }
  token "empty" {
    sha256 = sha256("")                  # ERROR: is the hash of an empty string; `promptweir token ci` makes a token.
  }
  token "anonymous" {                    # ERROR: is the name of callers without a token # ERROR: Missing sha256; Set sha256 to the hash of the token: printf %s "$token" | sha256sum prints it.
  }
  token "a b" {                          # ERROR: cannot be a subject
    sha256 = sha256("a b")
  }
  token {                                # ERROR: Write token "NAME" { … } # ERROR: Missing sha256
  }
  token "a" "b" {                        # ERROR: Write token "NAME" { … } # ERROR: Missing sha256
  }
}
hide "x" { prompts = "*" }               # ERROR: must be a list
