#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
#
# failures.t - tests/FAILURES.md names a test for every kind of trouble from the
# field, and each of them exists and is among those that are run.
use strict;
use warnings;
use File::Basename qw(dirname);
use Test::More;

use constant KINDS => 42;
# What the issue allows to wait: 21, 26, 27, 37, 38, 40.
my %may_wait = map { $_ => 1 } 21, 26, 27, 37, 38, 40;

chdir dirname(__FILE__) . '/../..' or BAIL_OUT("cannot find the source tree");

sub slurp {
    my ($path) = @_;
    open my $handle, '<', $path or return '';
    local $/;
    return scalar <$handle>;
}

# Whether a program of this source is registered in its room.
sub is_run {
    my ($path) = @_;
    return 1 if $path =~ m{^tests/(integration|lint)/\w+\.t$};
    my ($room, $name) = $path =~ m{^tests/(\w+)/(\w+)\.c$} or return 0;
    (my $story = $name) =~ s/^(it|chaos|fuzz)_//;
    return slurp("tests/$room/CMakeLists.txt") =~ /\b(?:\Q$name\E|\Q$story\E)\b/;
}

my (%seen, @order, @missing, @bare);
for my $line (split /\n/, slurp('tests/FAILURES.md')) {
    my ($number, $kind, $test) = $line =~ /^\| (\d+) \| (.+?) \| (.+?) \|$/ or next;
    push @order, $number;
    push @bare, $number unless $kind =~ /\w+ \w+/;
    if ($test eq 'later: packs, remote, gRPC') {
        push @missing, "$number may not wait" unless $may_wait{$number};
    } else {
        push @missing, "$number: no $test" unless -f $test;
        push @missing, "$number: $test is not run" unless is_run($test);
    }
}
is_deeply(\@order, [ 1 .. KINDS ], 'every kind once, in order');
ok(!@bare, 'each says what it is') or diag("@bare");
ok(!@missing, 'each has a test that is run') or diag(join "\n", @missing);

done_testing();
