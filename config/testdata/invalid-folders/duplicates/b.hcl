gateway {} # ERROR: There is already a block "gateway" at testdata/invalid-folders/duplicates/a.hcl:1
admin {}   # ERROR: There is already a block "admin" at testdata/invalid-folders/duplicates/a.hcl:2
auth {     # ERROR: There is already a block "auth" at testdata/invalid-folders/duplicates/a.hcl:3
  anonymous = true
}
