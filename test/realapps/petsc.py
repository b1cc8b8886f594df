"""Solves a Poisson equation by PETSc, whose parts bring other libraries: HYPRE,
SuperLU_DIST, MUMPS; and moves vectors by its scatters. What it prints does
not depend on the order of messages, in the digits that it prints."""
import glob
import sys

# Debian's own path goes by an alternative, which not every set of its packages makes
sys.path += glob.glob("/usr/lib/petscdir/*/*/lib/python3/dist-packages")
import petsc4py

petsc4py.init(sys.argv)
from petsc4py import PETSc

SIDE = 18
comm = PETSc.COMM_WORLD
say = PETSc.Sys.Print


def poisson(grid):
    """The seven-point matrix of the grid, with a slope that makes it unsymmetric."""
    matrix = grid.createMatrix()
    row, column = PETSc.Mat.Stencil(), PETSc.Mat.Stencil()
    (x0, x1), (y0, y1), (z0, z1) = grid.getRanges()
    for z in range(z0, z1):
        for y in range(y0, y1):
            for x in range(x0, x1):
                row.index = column.index = (x, y, z)
                matrix.setValueStencil(row, column, 6.5)
                for dx, dy, dz, value in (
                    (1, 0, 0, -1.2), (-1, 0, 0, -1.0), (0, 1, 0, -1.0),
                    (0, -1, 0, -1.0), (0, 0, 1, -0.9), (0, 0, -1, -1.0),
                ):
                    to = (x + dx, y + dy, z + dz)
                    if all(0 <= i < SIDE for i in to):
                        column.index = to
                        matrix.setValueStencil(row, column, value)
    matrix.assemble()
    return matrix


grid = PETSc.DMDA().create([SIDE] * 3, stencil_width=1, comm=comm)
matrix = poisson(grid)
answer, rhs = matrix.createVecs()
answer.setArray([1 + i % 7 for i in range(*answer.getOwnershipRange())])
matrix.mult(answer, rhs)
say("norm of the right side %.10e" % rhs.norm())

for name, kind, options in (
    ("gmres, block Jacobi", "gmres", {"pc_type": "bjacobi"}),
    ("bicgstab, additive Schwarz", "bcgs", {"pc_type": "asm"}),
    ("gmres, PETSc multigrid", "gmres", {"pc_type": "gamg"}),
    ("gmres, HYPRE", "gmres", {"pc_type": "hypre"}),
    ("SuperLU_DIST", "preonly", {"pc_type": "lu", "pc_factor_mat_solver_type": "superlu_dist"}),
    ("MUMPS", "preonly", {"pc_type": "lu", "pc_factor_mat_solver_type": "mumps"}),
):
    settings = PETSc.Options()
    for key, value in options.items():
        settings[key] = value
    solver = PETSc.KSP().create(comm)
    solver.setOperators(matrix)
    solver.setType(kind)
    solver.setTolerances(rtol=1e-10)
    solver.setFromOptions()
    found = rhs.duplicate()
    solver.solve(rhs, found)
    found.axpy(-1.0, answer)
    wrong = found.norm(PETSc.NormType.NORM_INFINITY)
    say("%s: converged %s, %s" % (name, solver.getConvergedReason() > 0,
        "right" if wrong < 1e-6 else "wrong by %g" % wrong))
    for key in options:
        settings.delValue(key)
    solver.destroy()

# Every rank gets all of the vector, in reverse; then its ghosts, to and fro; and what
# it needs of a transposed matrix and a product.
n = answer.getSize()
here = PETSc.Vec().createSeq(n)
backwards = PETSc.IS().createStride(n, n - 1, -1, comm=PETSc.COMM_SELF)
PETSc.Scatter().create(answer, backwards, here, None).scatter(answer, here)
good = all(here[i] == 1 + (n - 1 - i) % 7 for i in range(n))
local = grid.createLocalVec()
for _ in range(50):
    grid.globalToLocal(answer, local)
    grid.localToGlobal(local, rhs, addv=True)
transposed = matrix.transpose(PETSc.Mat())
product = transposed.matMult(matrix)
say("scattered %s, ghosts %.10e, product %.10e" % (
    comm.tompi4py().allreduce(good) == comm.size, rhs.norm(), product.norm()))
