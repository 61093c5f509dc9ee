"""Parts of a model's forward pass that training puts in place of transformers' own."""
