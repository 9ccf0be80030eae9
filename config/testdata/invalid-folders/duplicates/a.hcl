gateway {}
admin {}
auth { anonymous = true }
