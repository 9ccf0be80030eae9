gateway {
  listen      = env("SECRET")            # ERROR: Invalid listen; (sensitive) is not HOST:PORT
  separator   = env("SECRET")            # ERROR: Sensitive separator; Values from env and file are sensitive, and separator is logged
  page_size   = tonumber(env("SECRET"))  # ERROR: does not accept one of its arguments, which is sensitive and not shown
  cursor_keys = [env("SECRET")]          # ERROR: (sensitive) is not base64
  conflict    = "${env("SECRET")}"       # ERROR: Sensitive conflict
}
auth {
  token "ci" { sha256 = env("SECRET") }  # ERROR: (sensitive) is not 64 hexadecimal digits
}
team "a" {
  members = [env("SECRET")]              # ERROR: Sensitive members
  upstream "u" {
    url     = env("SECRET")              # ERROR: Invalid upstream URL; (sensitive) is not
    headers = { (env("SECRET")) = "x" }  # ERROR: The names in headers are logged
    prefix  = file("trusted/exact.txt")  # ERROR: Sensitive prefix
    timeout = env("UNSET", "10s")        # ERROR: Sensitive timeout
  }
  upstream "v" {
    url     = "https://v.example.com"
    headers = { A = env("UNSET"), B = file("gone"), C = jsondecode(env("SECRET")) } # ERROR: UNSET is not set; set it or give a default: env("UNSET", "…"). # ERROR: Cannot read file; "gone": no such file # ERROR: does not accept one of its arguments
  }
  upstream "w" {
    url     = "https://w.example.com"
    headers = { A = env("SECRET") + 1 } # ERROR: The details are not shown because the expression contains a sensitive value
  }
  upstream "x" { command = ["npx", file(env("SECRET")), env(env("SECRET")), env("A", "b", "c")] } # ERROR: Cannot read file; (sensitive): # ERROR: the name of a variable may not come from env # ERROR: env takes a name and one default
  upstream "y" { command = ["npx", file("."), file("/dev/null")] } # ERROR: it is not a regular file # ERROR: it is not a regular file
  upstream "z" { command = ["npx", file("pem/binary.crt")] } # ERROR: Cannot read file; "pem/binary.crt": it is not UTF-8 text
}
