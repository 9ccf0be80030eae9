prompt "a.x" {
  upstream   = "a"
  sha256     = "6d05dcd7395808f66309c9411db93fdc57fb861efc95938239e2459de048f547"
  definition = "{\"title\":\"T\"}"
}
prompt "a.x" {                           # ERROR: Duplicate name
  upstream   = "a"
  sha256     = "6d05dcd7395808f66309c9411db93fdc57fb861efc95938239e2459de048f547"
  definition = "{\"title\":\"T\"}"
}
prompt "a.y" {
  upstream   = "a"
  sha256     = "6d05dcd7395808f66309c9411db93fdc57fb861efc95938239e2459de048f547"                      # ERROR: Hash does not match
  definition = "{\"title\":\"another\"}"
}
prompt "a.z" {                           # ERROR: Missing sha256 # ERROR: Missing definition # ERROR: Missing upstream
}
prompt "a.w" {
  upstream   = "w"
  sha256     = "12"                      # ERROR: is not 64 hexadecimal digits
  definition = "{}"
  other      = "1"                       # ERROR: Unknown attribute
}
team "x" {}                              # ERROR: Unknown block
