# frames.pl ADDRESS STEP...: talks to a server byte by byte, as no client of PandoFS would. ADDRESS is one
# of the cluster map: unix:/PATH or tcp:HOST:PORT. Each step prints a line.
#   raw:HEX               sends these bytes
#   random:SEED:COUNT     sends so many random bytes
#   frame:HEX             sends a frame with this body
#   damaged:HEX           the same with a wrong checksum
#   hello:FS:PEER         says hello as HEX, PEER being the encoded peer, and prints the answer
#   answer                prints the next frame that comes, 'closed' or 'nothing'
#   closed                waits until the other side has closed the connection
#   mutate:SEED:COUNT:FS:PEER:FILE[:FROM:TO]  sends COUNT frames, each one of the golden file's with up to
#                         three bytes changed, over as many connections as it takes; with FROM and TO each
#                         is what shard FROM says to shard TO, which is not answered
use strict;
use warnings;
use IO::Select;
use IO::Socket::INET;
use IO::Socket::UNIX;

# Seconds that the other side may take to answer or close. Servers give a silent connection 10 s.
my $patience = 30;
my $address = shift;
my $socket;

sub connected {
    my $made = $address =~ m{^unix:(.*)} ? IO::Socket::UNIX->new(Peer => $1)
             : $address =~ m{^tcp:(.*)}  ? IO::Socket::INET->new(PeerAddr => $1)
             :                             die "what address is $address?\n";
    return $made || die "cannot connect to $address: $!\n";
}

# CRC-32C, the checksum of frames.
my @table = map { my $c = $_; $c = $c & 1 ? 0x82f63b78 ^ ($c >> 1) : $c >> 1 for 1 .. 8; $c } 0 .. 255;
sub checksum {
    my $c = 0xffffffff;
    $c = $table[($c ^ $_) & 255] ^ ($c >> 8) for unpack 'C*', $_[0];
    return $c ^ 0xffffffff;
}

sub frame { my ($body) = @_; return pack('VV', length $body, checksum($body)) . $body }

# A number of 32 hexadecimal digits, in sevens of bits, the lowest first.
sub varint {
    my $bits = unpack 'B128', pack 'H32', $_[0];
    my $out = '';
    do {
        my $low = substr $bits, -7;
        $bits = length $bits > 7 ? substr($bits, 0, -7) : '';
        $out .= chr(oct("0b$low") | ($bits =~ /1/ ? 128 : 0));
    } while ($bits =~ /1/);
    return $out;
}

sub hello { my ($fs, $peer) = @_; return 'PNDO' . pack('v', 1) . varint($fs) . pack('H*', $peer) }

# The other side may have closed already: what it made of the bytes is asked for separately.
sub send_bytes { local $SIG{PIPE} = 'IGNORE'; print $socket $_[0]; $socket->flush }

# So many bytes; fewer when the other side has closed, undef when nothing comes.
sub receive {
    my ($count, $within) = @_;
    my $bytes = '';
    while (length $bytes < $count) {
        IO::Select->new($socket)->can_read($within) or return undef;
        my $got = sysread $socket, $bytes, $count - length $bytes, length $bytes;
        last unless $got;    # the end, or a reset
    }
    return $bytes;
}

sub answer {
    my ($within) = @_;
    my $header = receive(8, $within);
    return 'nothing' unless defined $header;
    return 'closed' if length $header < 8;
    my ($length, $sum) = unpack 'VV', $header;
    my $body = receive($length, $within);
    return 'closed' unless defined $body && length $body == $length;
    die "an answer has a wrong checksum\n" unless checksum($body) == $sum;
    return unpack 'H*', $body;
}

sub mutate {
    my ($seed, $count, $fs, $peer, $file, $from, $to) = @_;
    srand $seed;
    open my $golden, '<', $file or die "$file: $!\n";
    # Not `Write` and `Allocate`: to a data object they say nothing that a server could find wrong. For another server's
    # requests of data that holds with each of their kinds, as one byte makes one of the other.
    my @bodies = map { /: ([0-9a-f]+)$/ && !/^Data, (?:Write|Allocate)/ ? pack 'H*', $1 : () }
        grep { !defined $from || /^PeerFrame (?!Data:)/ } <$golden>;
    die "no messages in $file\n" unless @bodies > 10;
    my %seen = (answered => 0, closed => 0, nothing => 0);
    for (1 .. $count) {
        if (!$socket) {
            # The genuine server may connect in between, and closes this connection.
            for (1 .. 10) {
                $socket = connected();
                send_bytes(frame(hello($fs, $peer)));
                last if answer($patience) =~ /^504e444f/;
                undef $socket;
                select undef, undef, undef, 0.2;
            }
            $socket or die "the server does not welcome us any more\n";
        }
        my $body = $bodies[rand @bodies];
        substr($body, rand length $body, 1) = chr rand 256 for 0 .. rand 3;
        substr($body, 2, 2) = pack 'CC', $from, $to if defined $from;
        send_bytes(frame($body));
        # Some are answered when something else has happened, so none is waited for long.
        my $said = answer(defined $from ? 0.01 : 0.2);
        $seen{$said =~ /^[0-9a-f]+$/ ? 'answered' : $said}++;
        # After no answer the next one to come would be to an earlier message.
        undef $socket if $said eq 'closed' || $said eq 'nothing';
    }
    print "$seen{answered} were answered, after $seen{closed} the connection was closed, ",
        "$seen{nothing} got no answer\n";
}

for my $step (@ARGV) {
    my ($what, @with) = split /:/, $step;
    if ($what eq 'mutate') { mutate(@with); next }
    $socket ||= connected();
    if    ($what eq 'raw')     { send_bytes(pack 'H*', $with[0]); print "sent\n" }
    elsif ($what eq 'random')  { srand $with[0]; send_bytes(join '', map { chr rand 256 } 1 .. $with[1]); print "sent\n" }
    elsif ($what eq 'frame')   { send_bytes(frame(pack 'H*', $with[0] // '')); print "sent\n" }
    elsif ($what eq 'damaged') { my $f = frame(pack 'H*', $with[0]); substr($f, 4, 1) ^= "\x01"; send_bytes($f); print "sent\n" }
    elsif ($what eq 'hello')   { send_bytes(frame(hello(@with))); print answer($patience), "\n" }
    elsif ($what eq 'answer')  { print answer($patience), "\n" }
    elsif ($what eq 'closed') {
        my $said;
        do { $said = answer($patience) } until $said eq 'closed' || $said eq 'nothing';
        print "$said\n";
        exit 1 unless $said eq 'closed';
    }
    else { die "what is $step?\n" }
}
