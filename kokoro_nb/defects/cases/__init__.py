"""The known defects, a module for each tool and a class for each defect; `defect_case` says what they define."""
