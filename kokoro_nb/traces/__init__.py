"""What passes the operators of a program: who computed it, its statistics or its values, and what was not seen."""
