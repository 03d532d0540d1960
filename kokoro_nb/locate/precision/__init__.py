"""Where float16 breaks a Core ML program, operator by operator, and which operators must stay float32."""
