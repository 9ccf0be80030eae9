gateway {} # ERROR: There is one gateway block at testdata/invalid-folders/duplicates/a.hcl:1
admin {}   # ERROR: There is one admin block at testdata/invalid-folders/duplicates/a.hcl:2
auth {     # ERROR: There is one auth block at testdata/invalid-folders/duplicates/a.hcl:3
  anonymous = true
}
