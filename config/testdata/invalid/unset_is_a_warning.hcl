# validate
gateway {
  listen      = env("UNSET")             # WARNING: UNSET is not set and has no default
  public_url  = env("UNSET")             # WARNING: UNSET is not set
  page_size   = 50000                    # ERROR: from 1 to 10000
  cursor_keys = [
    env("UNSET"),                        # WARNING: UNSET is not set
  ]
}
auth {
  token "ci" { sha256 = env("UNSET") }   # WARNING: UNSET is not set
}
team "a" {
  upstream "u" {
    url = "https://${env("UNSET")}/mcp"  # WARNING: UNSET is not set
    headers = {
      Authorization = "Bearer ${jsondecode(env("UNSET")).token}" # WARNING: UNSET is not set
      Other         = env("UNSET", "x")
    }
  }
  upstream "v" { command = [env("UNSET"), env(upper("unset2"))] } # WARNING: UNSET is not set # WARNING: UNSET2 is not set
  upstream "w" { command = split(" ", env("UNSET")) } # WARNING: UNSET is not set
}
