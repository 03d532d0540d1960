"""Where too few bits break a program: each operator in float64, and the operators that have to stay float32."""
