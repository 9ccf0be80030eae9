gateway {
  screen {                               # ERROR: Write screen "NAME" # ERROR: Nothing to screen for
  }
}
team "a" {
  screen "1" { action = "reject" }       # ERROR: Nothing to screen for
  screen "2" {
    content = ["text", "video"]          # ERROR: "video" is not one of: text, image, audio, resource, resource_link
    action  = "strip"                    # ERROR: Cannot be stripped
  }
  screen "3" {
    patterns = ["(", "x*", "ok", ""]     # ERROR: is not a regular expression # ERROR: "x*" matches the empty text # ERROR: "" matches the empty text
    action   = "delete"                  # ERROR: "delete" is not one of: reject, strip, warn
  }
  screen "4" {
    content  = []                        # ERROR: Invalid content; An empty list could mean everything or nothing
    patterns = []                        # ERROR: Invalid patterns; An empty list could mean everything or nothing
    max_size = 0                         # ERROR: max_size must be a whole number
  }
  screen "large" {
    patterns = [".{0,999}b.{0,999}b.{0,999}b.{0,999}b.{0,999}b.{0,999}"] # ERROR: compiles to more than 10000 instructions
  }
  screen "5" {
    invisible = "perhaps"                # ERROR: invisible must be true or false
    max_sise  = 5                        # ERROR: Did you mean "max_size"
  }
  screen "6" {
    wellformed = true
    invisible  = true
    action     = "strip"                 # ERROR: Cannot be stripped
  }
}
