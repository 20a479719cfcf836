"""Certificates for a test, made by the openssl command when they are needed; none is in the tree."""
import shutil
import subprocess
import time

import pytest


class Authority:
    """A CA in `folder`."""

    def __init__(self, folder, name, days=30):
        self.folder, self.name = folder, name
        self._openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", days,
                      "-subj", f"/CN={name}", "-addext", "keyUsage=critical,keyCertSign,cRLSign", "-keyout", self.file("key"), "-out", self.file("pem"))

    @staticmethod
    def _openssl(*args):
        if not shutil.which("openssl"):
            pytest.skip("no openssl command to make certificates with")
        subprocess.run(["openssl", *map(str, args)], check=True, capture_output=True, timeout=60)

    def file(self, kind):
        return self.folder / f"{self.name}.{kind}"

    def _ca(self, *args):
        """openssl's ca, which keeps a list of certificates."""
        config, index = self.file("conf"), self.file("index")
        config.write_text(f"[ca]\ndefault_ca=d\n[d]\ndatabase={index}\nnew_certs_dir={self.folder}\nunique_subject=no\ndefault_md=sha256\n"
                          "policy=p\npreserve=yes\nrand_serial=yes\n[p]\ncommonName=supplied\n")
        index.touch()
        self._openssl("ca", "-config", config, "-batch", "-cert", self.file("pem"), "-keyfile", self.file("key"), *args)

    def revoke(self, *certificates, days=2):
        """A list of these and of all that were revoked before; it expires `days` from now on."""
        crl = self.file("crl")
        for c in certificates:
            self._ca("-revoke", c)
        self._ca("-gencrl", "-crldays" if days > 0 else "-crlsec", days if days > 0 else 1, "-out", crl)
        return crl

    def _sign(self, request, extension, cert, days):
        """`x509` of OpenSSL 3.4 and later makes no certificate that ends before it starts, so `ca` makes those of the past."""
        if days > 0:
            self._openssl("x509", "-req", "-in", request, "-CA", self.file("pem"), "-CAkey", self.file("key"), "-CAcreateserial",
                          "-days", days, "-extfile", extension, "-out", cert)
        else:
            start, end = (time.strftime("%Y%m%d%H%M%SZ", time.gmtime(time.time() + d * 86400)) for d in (days - 1, days))
            self._ca("-in", request, "-startdate", start, "-enddate", end, "-extfile", extension, "-notext", "-out", cert)

    def issue(self, name, dns, days=30, subject=None):
        """(certificate, key): PEM files of a peer whose certificate names `dns`; of yesterday with days=-1. `subject`, such as
        "/O=x/CN=y": other than the common name `name`, which the files have, too."""
        subject = f"/CN={name}" if subject is None else subject
        stem = self.folder / f"{self.name}-{name}"
        request, extension, cert, key = (stem.with_suffix(s) for s in (".csr", ".ext", ".pem", ".key"))
        self._openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-utf8", "-subj", subject,
                      "-keyout", key, "-out", request)
        extension.write_text(f"subjectAltName=DNS:{dns}\nkeyUsage=critical,digitalSignature\nauthorityKeyIdentifier=keyid\n")
        self._sign(request, extension, cert, days)
        key.chmod(0o600)
        return cert, key
