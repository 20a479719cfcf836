"""Certificates for a test, made by the openssl command when they are needed; none is in the tree."""
import shutil
import subprocess

import pytest


class Authority:
    """A CA in `folder`."""

    def __init__(self, folder, name, days=30):
        self.folder, self.name = folder, name
        self._openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", days,
                      "-subj", f"/CN={name}", "-keyout", self.file("key"), "-out", self.file("pem"))

    @staticmethod
    def _openssl(*args):
        if not shutil.which("openssl"):
            pytest.skip("no openssl command to make certificates with")
        subprocess.run(["openssl", *map(str, args)], check=True, capture_output=True, timeout=60)

    def file(self, kind):
        return self.folder / f"{self.name}.{kind}"

    def revoke(self, *certificates, days=2):
        """A list of these and of all that were revoked before; it expires `days` from now on."""
        config, index, crl = self.file("conf"), self.file("index"), self.file("crl")
        config.write_text(f"[ca]\ndefault_ca=d\n[d]\ndatabase={index}\nunique_subject=no\ndefault_md=sha256\n")
        index.touch()
        ca = ["ca", "-config", config, "-cert", self.file("pem"), "-keyfile", self.file("key")]
        for c in certificates:
            self._openssl(*ca, "-revoke", c)
        self._openssl(*ca, "-gencrl", "-crldays" if days > 0 else "-crlsec", days if days > 0 else 1, "-out", crl)
        return crl

    def issue(self, name, dns, days=30, subject=None):
        """(certificate, key): PEM files of a peer whose certificate names `dns`; of yesterday with days=-1. `subject`, such as
        "/O=x/CN=y": other than the common name `name`, which the files have, too."""
        subject = f"/CN={name}" if subject is None else subject
        stem = self.folder / f"{self.name}-{name}"
        request, extension, cert, key = (stem.with_suffix(s) for s in (".csr", ".ext", ".pem", ".key"))
        self._openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-utf8", "-subj", subject,
                      "-keyout", key, "-out", request)
        extension.write_text(f"subjectAltName=DNS:{dns}\n")
        self._openssl("x509", "-req", "-in", request, "-CA", self.file("pem"), "-CAkey", self.file("key"), "-CAcreateserial",
                      "-days", days, "-extfile", extension, "-out", cert)
        key.chmod(0o600)
        return cert, key
