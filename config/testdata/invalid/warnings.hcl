# Only warnings, so the configuration loads.
gateway {                        # WARNING: No lock file; There is no testdata/invalid/promptweir.lock.hcl
  lock = "warn"
  limit { concurrency = 5 }
}
audit {
  path      = "audit.jsonl"
  arguments = "hash"             # WARNING: No cursor_keys; The hashes are keyed with cursor_keys
  required  = true               # WARNING: No limit for anonymous callers; Every get by an anonymous caller writes a line
}
auth { anonymous = true }
