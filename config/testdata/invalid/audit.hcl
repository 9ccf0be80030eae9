audit {                          # ERROR: An audit log needs a file: set path
  arguments = "value"            # ERROR: "value" is not one of: names, hash, values. Did you mean "values"?
  required  = "yes"              # ERROR: required
}
audit {                          # ERROR: audit
  path = "/var/log/promptweir/"  # ERROR: is not the path of a file
}
