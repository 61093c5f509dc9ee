"""Where pods leave what Argo reads as output parameters and artifacts (apart, since pods do not import Hera)."""

OUTPUTS = "/tmp/argosy"
