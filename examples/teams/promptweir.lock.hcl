# Every prompt's approved definition, written by "promptweir lock": review the difference, not the file.

prompt "handbook.incident_report" {
  upstream   = "handbook"
  sha256     = "9a525c9f8a8e152952df73e9cc405a3597b70737e18cb1635913c9301a9083c7"
  definition = <<-JSON
    {
      "arguments": [
        {
          "description": "What was seen and done, in order.",
          "name": "notes",
          "required": true,
          "title": "Notes"
        },
        {
          "description": "How bad it was: minor, major or critical.",
          "name": "severity",
          "title": "Severity"
        }
      ],
      "description": "Turn notes taken during an incident into a report without blame.",
      "title": "Write an incident report"
    }
  JSON
}

prompt "handbook.shift_handover" {
  upstream   = "handbook"
  sha256     = "3173f70e1ef7a47ef9917edac1595d47c3b6fb448d4b78b67de554b72ce781fa"
  definition = <<-JSON
    {
      "description": "Ask what the next person on call needs to know, and write it down.",
      "title": "Hand over a shift"
    }
  JSON
}

prompt "letters.apology" {
  upstream   = "letters"
  sha256     = "7a93a1e62c03de182c66d9560ff6167687ffa55917cac3878e6409615d78b71c"
  definition = <<-JSON
    {
      "arguments": [
        {
          "name": "company",
          "required": true
        },
        {
          "name": "customer",
          "required": true
        },
        {
          "name": "what_happened",
          "required": true
        }
      ],
      "description": "Say sorry for something that broke."
    }
  JSON
}

prompt "letters.draft_farewell" {
  upstream   = "letters"
  sha256     = "b34fe6c13c74bee2f819659f23cb7f73cc8324ff74938764fd3f37f7ee6f8283"
  definition = <<-JSON
    {
      "arguments": [
        {
          "name": "customer",
          "required": true
        }
      ],
      "description": "Half an idea."
    }
  JSON
}

prompt "letters.refund" {
  upstream   = "letters"
  sha256     = "a357c5c3d29ffe6f1f59928f7ab0872c5efee85b936be8df57db6e7e58a56182"
  definition = <<-JSON
    {
      "arguments": [
        {
          "name": "company",
          "required": true
        },
        {
          "name": "customer",
          "required": true
        },
        {
          "name": "language",
          "required": true
        },
        {
          "name": "order",
          "required": true
        }
      ],
      "description": "Answer somebody who wants their money back."
    }
  JSON
}

prompt "reviews.code_review" {
  upstream   = "reviews"
  sha256     = "b1d86bfdb23b49309fd826b1102c903ec8f0464cd5080a22ef6d6b890f0b924f"
  definition = <<-JSON
    {
      "arguments": [
        {
          "description": "The code to review.",
          "name": "code",
          "required": true,
          "title": "Code"
        },
        {
          "description": "The language it is written in. Guessed when absent.",
          "name": "language",
          "title": "Language"
        }
      ],
      "description": "Review a piece of code for correctness first, then for clarity.",
      "title": "Review code"
    }
  JSON
}

prompt "reviews.commit_message" {
  upstream   = "reviews"
  sha256     = "a5ebe1894cc143f6275f2d5916c3f918e11516e275df76bdf7736989ef5c15bd"
  definition = <<-JSON
    {
      "arguments": [
        {
          "description": "The change, as printed by git diff.",
          "name": "diff",
          "required": true,
          "title": "Diff"
        }
      ],
      "description": "Turn a diff into a commit message: a short subject, then why.",
      "title": "Write a commit message"
    }
  JSON
}
