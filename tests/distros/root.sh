# Sourced, as root: fresh roots of Debian's distributions in the folder $roots, for tests/distros/run and carried. The folder is
# not below build/, where lints that read every page would meet those of a system. $logs is the folder of the logs.
[ "$(id -u)" = 0 ] || { echo "needs root: debootstrap and chroot"; exit 77; }
command -v debootstrap >/dev/null || { echo "no debootstrap"; exit 77; }
site=${DEBIAN_SITE:-http://deb.debian.org/debian}

# bind NAME FOLDER INSIDE: a folder of this machine in the root
bind() { mkdir -p "$roots/$1$3" && mount --bind "$2" "$roots/$1$3"; }

# make_root NAME: packages come from the network once, and are kept in $roots/packages
make_root() {
  mkdir -p "$roots/packages/partial" "$logs"
  end_root "$1"
  debootstrap --variant=minbase --cache-dir="$roots/packages" "$1" "$roots/$1" "$site" >"$logs/$1.log" 2>&1 ||
    { tail -n 5 "$logs/$1.log"; return 1; }
  printf '127.0.0.1 localhost\n::1 localhost\n' >"$roots/$1/etc/hosts"
  cp /etc/resolv.conf "$roots/$1/etc/"
  [ -z "${PIP_CERT-}" ] || cp "$PIP_CERT" "$roots/$1$home/ca.crt" # where a proxy has a certificate of its own
  mount -t proc proc "$roots/$1/proc"
  mount -t sysfs sysfs "$roots/$1/sys"
  mount -t tmpfs tmpfs "$roots/$1/run"
  mount --bind /dev "$roots/$1/dev" && mount --make-private "$roots/$1/dev" # what is mounted there is not for this machine
  mount -t tmpfs tmpfs "$roots/$1/dev/shm"
  mount -t devpts -o newinstance,ptmxmode=0666 devpts "$roots/$1/dev/pts" 2>/dev/null || :
  bind "$1" "$roots/packages" /var/cache/apt/archives
}

# inside NAME COMMAND...: in the root, in its tree
home=/root
inside() {
  name=$1 && shift
  chroot "$roots/$name" env -i HOME=$home PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
    ${PIP_CERT:+PIP_CERT=$home/ca.crt} \
    sh -c 'cd ~/reduced 2>/dev/null; exec "$@"' - "$@"
}

# end_root NAME: what runs or is mounted in it ends with it, such as a daemon that reducectl started
end_root() {
  for p in /proc/[0-9]*; do
    [ "$(readlink "$p/root")" != "$roots/$1" ] || kill "${p#/proc/}"
  done 2>/dev/null
  findmnt -rno TARGET | grep "^$roots/$1/" | sort -r | xargs -r -n 1 umount -l
  rm -rf --one-file-system "${roots:?}/$1"
}
