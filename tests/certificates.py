"""Certificates for a test, made by the openssl command when they are needed; none is in the tree."""
import shutil
import subprocess

import pytest


class Authority:
    """A CA in `folder`."""

    def __init__(self, folder, name):
        self.folder, self.name = folder, name
        self._openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                      "-subj", f"/CN={name}", "-keyout", self.file("key"), "-out", self.file("pem"))

    @staticmethod
    def _openssl(*args):
        if not shutil.which("openssl"):
            pytest.skip("no openssl command to make certificates with")
        subprocess.run(["openssl", *map(str, args)], check=True, capture_output=True, timeout=60)

    def file(self, kind):
        return self.folder / f"{self.name}.{kind}"

    def issue(self, name, dns, days=2):
        """(certificate, key): PEM files of a peer whose certificate names `dns`; of yesterday with days=-1."""
        stem = self.folder / f"{self.name}-{name}"
        request, extension, cert, key = (stem.with_suffix(s) for s in (".csr", ".ext", ".pem", ".key"))
        self._openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}",
                      "-keyout", key, "-out", request)
        extension.write_text(f"subjectAltName=DNS:{dns}\n")
        self._openssl("x509", "-req", "-in", request, "-CA", self.file("pem"), "-CAkey", self.file("key"), "-CAcreateserial",
                      "-days", days, "-extfile", extension, "-out", cert)
        key.chmod(0o600)
        return cert, key
