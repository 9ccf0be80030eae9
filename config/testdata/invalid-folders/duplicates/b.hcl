gateway {} # ERROR: There is already a gateway block at testdata/invalid-folders/duplicates/a.hcl:1
admin {}   # ERROR: There is already a admin block at testdata/invalid-folders/duplicates/a.hcl:2
auth {     # ERROR: There is already a auth block at testdata/invalid-folders/duplicates/a.hcl:3
  anonymous = true
}
